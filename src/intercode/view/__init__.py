"""`intercode view`: runs and episodes in the browser, while they are played or afterwards (extra
`view`)."""
