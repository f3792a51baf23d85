#!/bin/bash
sort -o words.txt words.txt
