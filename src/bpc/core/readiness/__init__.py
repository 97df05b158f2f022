"""What is known before a passport is issued: a trial compile, what is missing, what would change."""
