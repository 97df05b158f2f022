"""The rule language, BPC-RULES-1. Each pass is a folder or a module, and sees only those before it.

text ─► parsing ─► syntax tree ─► checking ─► typed tree ─► evaluating: values, and their proof
                      │                           ├───────► reference: the second opinion of verification
                      └─► formatting              └───────► testing: examples and properties
"""
