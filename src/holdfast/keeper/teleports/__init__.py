"""Going on elsewhere: remotes, devices, people, and what travels between them."""
