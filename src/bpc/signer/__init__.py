"""The process that holds private keys: it signs whole documents, keeps a record of each, and knows who asks."""
