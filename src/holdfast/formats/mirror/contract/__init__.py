"""The live `.ai-session/` directory of the contract format: created, updated, checked and restored.

Other programs read and write it at the same time, and people keep it in git. So every file is replaced whole or only
appended to, each change holds a lock, and a process that dies half-way leaves nothing the next one cannot settle.
"""
