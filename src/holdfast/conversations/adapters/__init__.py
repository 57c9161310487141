"""One package per agent program, behind `base.Agent`, and what they share. None knows sessions or the store."""
