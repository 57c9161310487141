"""`holdfast watch`: the sessions, live in the terminal.

`keys` and `line_edit` read what is typed, `bindings` says what a key does to a `scene`, `view` and `pane` draw it:
all are pure. `data`, `actions` and `background` call the keeper, `loop` runs it all.
"""
