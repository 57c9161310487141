"""`holdfast watch`: the sessions, live in the terminal.

`keys` and `lineedit` read what is typed, `pressing` says what a key does to a `scene`, `view` and `pane` draw it,
`screen` writes what changed: all of these are pure. `looking`, `acting` and `doing` speak with the keeper,
`loop` runs it all.
"""
