class: tool
echo high at noon
