"""The public pages: what anybody with a phone sees of a passport, without a key. They read, and never write."""
