"""What agents tell, made part of sessions: hooks' payloads taken in and answered, transcripts taken in, and the
connections to the agents that let all this happen by itself.
"""
