#!/usr/bin/env Rscript
plot(1:10)
