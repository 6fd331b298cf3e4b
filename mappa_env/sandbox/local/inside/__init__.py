"""Code that runs inside the sandbox, in the sandbox's interpreter. It imports only the standard library.

``main`` -> ``template`` (loads the libraries once) -> ``zygote`` (one per core) -> one fork per action.
"""
