"""Forms for suppliers: what a template asks for, and what is wrong in a file that was filled in.

Pure. `template_plan` says which columns a category of batteries has, `missing` which of them are still open;
`document_check` lists everything that is wrong in a document, `xlsx_annotation` writes it into a copy of the workbook.
The workbook of a plan is written by `bpc.printing.template_workbook`.
"""
