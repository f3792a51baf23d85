#!/bin/bash
printf lamp | sha1sum | cut -d' ' -f1 > /desk/digest.txt
