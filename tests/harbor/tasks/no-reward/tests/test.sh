#!/bin/bash
[ ! -e /work/README ]
