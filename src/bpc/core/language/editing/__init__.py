"""What an editor asks about rules: what is at this place, what can be said of it, and what could stand there."""
