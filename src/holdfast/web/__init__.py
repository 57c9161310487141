"""The dashboard: pages on loopback that show the sessions and act on them, live.

`serving` starts it, `app` is the map of its addresses, `gate` decides who may come in. A page (`pages/`) says what it
shows as named regions; `live` sends those that changed to whoever has the page open.
"""
