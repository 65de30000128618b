"""What the made-up receipts speak of: goods, shops and the words that tills print."""

from __future__ import annotations


def _list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.replace("\n", "").split("|"))


GOODS = _list(
    """Milk|Butter|Cheddar|Yoghurt|Cream|Eggs|Bread|Rolls|Bagels|Croissant|Muffins|Flour|Sugar|Salt|Pepper|Rice|Pasta
    |Noodles|Oats|Granola|Cereal|Honey|Jam|Peanut Butter|Olive Oil|Vinegar|Mustard|Ketchup|Mayonnaise|Soy Sauce|Pesto
    |Tomatoes|Onions|Garlic|Potatoes|Carrots|Spinach|Lettuce|Cucumber|Peppers|Mushrooms|Broccoli|Cabbage|Celery|Leeks
    |Apples|Bananas|Oranges|Lemons|Grapes|Pears|Peaches|Plums|Berries|Melon|Mango|Avocado|Chicken|Beef Mince|Sausages
    |Bacon|Ham|Turkey|Salmon|Tuna|Prawns|Cod Fillet|Tofu|Hummus|Soup|Beans|Chickpeas|Lentils|Sweetcorn|Peas|Pizza
    |Lasagne|Quiche|Crisps|Nuts|Raisins|Crackers|Biscuits|Chocolate|Ice Cream|Cake|Pudding|Coffee|Tea Bags|Cocoa|Cola
    |Lemonade|Orange Juice|Apple Juice|Water|Beer|Cider|Red Wine|White Wine|Shampoo|Soap|Toothpaste|Tissues|Sponges
    |Dish Soap|Bleach|Foil|Candles|Batteries|Light Bulb|Dog Food|Cat Litter|Roses|Magazine|Nappies|Plasters"""
)
# Never in a training receipt: what the model does with names that it has not seen.
HELD_OUT_GOODS = (
    "Gherkins", "Dumplings", "Marmalade", "Kidney Pie", "Walnut Loaf", "Horseradish", "Fig Rolls", "Ginger Ale",
    "Pancakes", "Sardines", "Rhubarb", "Custard",
)  # fmt: skip
KINDS = _list(
    "Organic|Fresh|Whole|Smoked|Salted|Sliced|Frozen|Dark|Light|Large|Small|Mini|Value|Farm|Italian|Greek|Spicy|Sweet|"
    "Roast|Wild|Classic|Premium|Green|Red|Brown|Baby"
)
SIZES = _list("1L|2L|500ml|250ml|330ml|1kg|500g|250g|200g|100g|750g|6pk|4pk|12pk|2pk|x10")

SHOP_NAMES = _list(
    "Corner|Greenfield|Harbour|Mill Lane|Station|Hilltop|Riverside|Oakwood|Bridge|Sunrise|Village|Northgate|Maple|"
    "Lakeside|Castle|Orchard|Meadow|Union|Park|Silver|Anchor|Garden|Ridge|Beacon"
)
SHOP_KINDS = _list("Market|Foods|Grocery|Pantry|Store|Express|Deli|Mart|Provisions|Larder|Kitchen|Co-op")

STREETS = _list("High Street|Main St|Station Road|Elm Ave|Church Lane|Broadway|King St|Park Road")
TOWNS = _list("Ashford|Brighton|Salem|Dover|Marburg|Leiden|Galway|Austin|Boston|Kiel|Bath|Lyon")
GREETINGS = _list("THANK YOU|Thank you for your visit|PLEASE COME AGAIN|Have a nice day|Customer copy|See you soon")
CASHIERS = _list("Anna|Ben|Carla|Dev|Elif|Frank|Grace|Hugo")
TOTAL_WORDS = _list("TOTAL|Total|AMOUNT DUE|BALANCE DUE|TO PAY|GRAND TOTAL|Total to pay")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
