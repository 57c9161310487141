"""The dashboard: live pages on loopback that show the sessions and act on them.

`serve` runs it, `app` maps its addresses, `security` decides who may come in. A page (`pages/`) is made of named
regions; `live` sends the changed ones to every browser that has the page open.
"""
