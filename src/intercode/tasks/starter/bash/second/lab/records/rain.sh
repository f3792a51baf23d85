class: tool
echo wet
