"""The common corruptions of ImageNet-C and CIFAR-10-C as pure functions of an image and a generator.

`parameters` names them and holds their settings and is cheap to import; `table` has the functions and needs
the extra `corruptions` (numba, OpenCV).
"""
