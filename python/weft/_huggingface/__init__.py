"""transformers, accelerate and peft on models that are parallel inside. Nothing here imports them before the user does."""
