"""The wire format of vaults: entries, membership, heads, packs, sealing and key wraps. No I/O."""
