class: tool
checked: Emil, 3 April
high at noon
