"""The graph, tensor view and stacks on real PyTorch trainings: a GPT-like network, a ResNet, a GAN."""
