#!/bin/bash
[ ! -e /desk/README ]
