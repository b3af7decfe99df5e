"""The drawings of docs/concepts, made from the code that they explain; light and dark in one."""
