"""What is done to a batch of images or texts; randomness per sample, any device."""
