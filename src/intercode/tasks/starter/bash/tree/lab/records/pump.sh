class: tool
to be checked: soon
drains the cellar
