"""worldline's losses inside other people's trainers. Each module needs the extra of its name."""
