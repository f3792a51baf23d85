#!/bin/bash
rm /work/README
