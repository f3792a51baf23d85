#!/bin/bash
printf lamp | sha1sum | cut -d' ' -f1 > /work/digest.txt
