"""The C++ library in csrc/, called through ctypes and offered to torch as custom operators."""
