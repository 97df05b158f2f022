"""The Battery Passport Compiler: supplier documents in, signed passports that anyone can check out."""

__version__ = "0.1.0"
