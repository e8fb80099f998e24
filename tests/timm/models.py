"""Models of timm at toy sizes."""

import dataclasses
from importlib.util import find_spec
from typing import Any

import torch


def _declare_operators_of_torchvision():
    """timm imports torchvision. Where that is built for another torch, its library is not loaded and its import fails, unless the
    operators that it describes are declared. No model here calls them."""
    try:
        torch.ops.load_library(find_spec("torchvision").submodule_search_locations[0] + "/_C.so")
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library


_LIBRARY = _declare_operators_of_torchvision()  # what it declares lives as long as it does
import timm  # noqa: E402


@dataclasses.dataclass
class Model:
    name: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    image: int = 32

    def make(self):
        torch.manual_seed(1)
        return timm.create_model(self.name, num_classes=4, **self.options).double()


SMALL_VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "num_heads": 4}
FEW_CHANNELS = {"dims": (8, 16, 16, 32), "depths": (1, 1, 2, 1)}

MODELS = {
    "ResNet": Model("resnet10t", {"stem_width": 8, "channels": (8, 16, 16, 32)}, 64),
    "RegNet": Model("regnety_002", image=64),
    "MobileNet": Model("mobilenetv3_small_050", image=64),
    "ConvNeXt": Model("convnext_atto", FEW_CHANNELS, 64),
    "ConvNeXt 2": Model("convnextv2_atto", FEW_CHANNELS, 64),
    "ViT": Model("vit_tiny_patch16_224", SMALL_VIT | {"depth": 2}),
    "CaiT": Model("cait_xxs24_224", SMALL_VIT | {"depth": 2}),
    "EVA": Model("eva02_tiny_patch14_224", SMALL_VIT | {"depth": 2}),
    "XCiT": Model("xcit_nano_12_p16_224", {"img_size": 64, "embed_dim": 32, "depth": 2}, 64),
    "MobileViT": Model("mobilevitv2_050", image=64),
}
