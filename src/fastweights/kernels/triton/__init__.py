"""The operator and the fused feature maps in Triton, for NVIDIA and AMD GPUs: availability.py imports no Triton."""
