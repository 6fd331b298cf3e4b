"""What runs inside: started with the sandbox's own interpreter, so the standard library is all it may import.

``main`` -> ``template`` (loads the libraries once) -> ``zygote`` (one per core) -> one fork per action.
"""
