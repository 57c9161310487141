"""Capture: turning an agent's hooks and transcripts into what they mean.

One package per agent, each behind `interface.Agent`; what they all turn their payloads into is `signals`. Nothing in
here knows sessions or the store: `keeper.captures` makes events of signals.
"""
