"""`holdfast watch`: the sessions, live in the terminal.

`keys` reads what is typed, `scene` says what is shown and what a key changes in it, `view` draws it: all are pure.
`data` and `actions` call the keeper, `loop` runs it all.
"""
