"""WebShop: the original's engine on its own data files (`webshop`) and on a generated catalogue (`shop`)."""

from worldline.envs.webshop.world import ShopConfig, ShopWorld, WebShopConfig, WebShopWorld

__all__ = ["ShopConfig", "ShopWorld", "WebShopConfig", "WebShopWorld"]
