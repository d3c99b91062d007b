//! The socket plane: user space, any machine.
