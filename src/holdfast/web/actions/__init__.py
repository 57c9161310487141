"""What a person can do from a page: each verb calls the keeper and says in a sentence what came of it."""
