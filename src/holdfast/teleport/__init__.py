"""Teleportation: sessions travel, sealed, between devices and people through a remote nobody needs to trust."""
