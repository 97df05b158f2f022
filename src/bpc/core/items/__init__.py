"""Items: every battery has its own passport, compiled below the passport of its model and of its batch."""
