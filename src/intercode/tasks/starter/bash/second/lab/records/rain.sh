class: tool
wet
