"""Spreadsheets: the parts of an XLSX file in, its sheets and their cells out.

Pure. `package` opens the archive and parses XML within limits, `workbook` has the sheets, `styles` the texts and
formats that cells refer to, `number_formats` what a format shows, and `sheet_rows` the rows of cells.
"""
