"""Labels: batteries in, sheets of codes out, as a PDF or as SVG pages that a printer takes as they are.

layout.py     how labels lie on paper and what fits on one; every measure is in millimetres
sheets.py     the pages, set in type; serial numbers in OCR-B, which people and machines read
sheets.typ    the template
"""
