"""What agent programs call: the hook scripts in the home, and the replies to agents that wait for one."""
