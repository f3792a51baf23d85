#!/bin/bash
rm /desk/README
