#!/bin/bash
cd "$TEST_DIR" && python3 -m unittest -q test_outputs
