"""The four published formats of a session, each behind one interface. Nothing here touches a file or the store."""
