#!/bin/sh
# started by the timetable
cp -r /depot/stock /backup/stock
