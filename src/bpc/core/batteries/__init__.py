"""Single batteries, each with a serial number and a life: registered, read out, handed on, recycled."""
